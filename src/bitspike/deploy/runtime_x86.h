static const Kernels *kernels(void)
{
    return &portable;
}
