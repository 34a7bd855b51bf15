"""Where vectors of texts come from; any function from texts to vectors serves as well."""
