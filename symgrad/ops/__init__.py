"""The op table: one primitive, one row. Raw arrays only; nothing here knows of tensors or graphs."""
