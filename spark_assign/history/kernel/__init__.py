"""The past of groups, from the records of their coordinator: generations, owners in time, silences, deploys."""
