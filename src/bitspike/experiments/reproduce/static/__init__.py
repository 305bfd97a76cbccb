"""The MNIST and FashionMNIST table."""
