"""The paper's table of static data: MNIST and FashionMNIST."""
