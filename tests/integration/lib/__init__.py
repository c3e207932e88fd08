"""What the tests of whole clusters are made of."""
