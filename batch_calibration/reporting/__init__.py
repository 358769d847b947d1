"""From records to what people look at."""
