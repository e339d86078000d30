// Renders templates of a Helm chart, with Go's own template engine and the functions that the chart uses:
//   chart VALUES TEMPLATE…   (values as JSON)
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"text/template"
)

func main() {
	var values map[string]any
	json.Unmarshal([]byte(os.Args[1]), &values)
	t := template.New("chart")
	t.Funcs(template.FuncMap{
		"quote":  func(v any) string { return fmt.Sprintf("%q", fmt.Sprint(v)) },
		"indent": func(n int, s string) string { p := strings.Repeat(" ", n); return p + strings.ReplaceAll(s, "\n", "\n"+p) },
		"include": func(name string, v any) (string, error) {
			var b bytes.Buffer
			err := t.ExecuteTemplate(&b, name, v)
			return b.String(), err
		},
	})
	for _, f := range os.Args[2:] {
		text, _ := os.ReadFile(f)
		template.Must(t.New(f).Parse(string(text)))
	}
	data := map[string]any{"Values": values, "Release": map[string]any{"Name": "nightly", "Namespace": "kafka"}}
	for _, f := range os.Args[2:] {
		fmt.Println("---")
		if err := t.ExecuteTemplate(os.Stdout, f, data); err != nil {
			panic(err)
		}
	}
}
