"""The API's data types: contexts, tensors, element types, configurations."""
