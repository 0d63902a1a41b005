"""What verbs share: options, parser, help, completion, console and progress."""
