"""The artifact leg's rules: what is asked of a model, what is believed of its replies, how mentions become subjects."""
