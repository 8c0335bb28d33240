"""Facts about engines and GPUs as tables, each row with source and confidence, and code that reads them."""
