"""What torchsmith can be asked: for each verb a Request, a Report, and the function between them."""
