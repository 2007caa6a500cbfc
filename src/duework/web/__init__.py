"""The pages: what people see and do in a browser. Needs the extra `web`, and loads it when it is used."""
