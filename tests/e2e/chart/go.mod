module chart

go 1.21
