/* Loops that compilers turn into vectors by themselves, compiled for several processors: each copy has its NAME(x), its
 * TARGET, and ONES(word), the set bits of a word.
 */

/* current = (twice * sum - less) / divisor, + bias, * scale, + offset: of channels that lie side by side. */
TARGET static void NAME(to_current)(const bs_layer *layer, const int32_t *sums, int32_t twice, int32_t less,
                                    uint32_t divisor, bs_number *current)
{
    const size_t n = layer->channels;
    if (divisor == 1)
        for (size_t i = 0; i < n; i++)
            current[i] = mean_of(twice * sums[i] - less, 1);
    else
        for (size_t i = 0; i < n; i++)
            current[i] = mean_of(twice * sums[i] - less, divisor);
    if (layer->bias)
        for (size_t i = 0; i < n; i++)
            current[i] = plus(current[i], layer->bias[i]);
    if (layer->scale)
        for (size_t i = 0; i < n; i++)
            current[i] = plus(times(layer->scale[i], current[i]), layer->offset[i]);
}

#ifndef BS_SMALL

/* to = from + base. */
TARGET static void NAME(move_list)(const uint32_t *restrict from, size_t n, uint32_t base, uint32_t *restrict to)
{
    for (size_t i = 0; i < n; i++)
        to[i] = from[i] + base;
}

/* counts[i] += times * (how many of `channels` bits of pixel i are set), or = if `fresh`. */
TARGET static void NAME(count_pixels)(const uint32_t *bits, uint32_t pixels, uint32_t channels, int32_t times, int fresh,
                                      int32_t *counts)
{
    uint32_t i = 0;
    if (channels == 16 && times == 1 && fresh) /* two pixels a word, as vectors */
        for (; i + 1 < pixels; i += 2) {
            uint32_t word = bits[i / 2];
            word -= word >> 1 & 0x55555555u;
            word = (word & 0x33333333u) + (word >> 2 & 0x33333333u);
            word = (word + (word >> 4)) & 0x0F0F0F0Fu;
            word += word >> 8;
            counts[i] = (int32_t)(word & 31);
            counts[i + 1] = (int32_t)(word >> 16 & 31);
        }
    for (; i < pixels; i++) {
        int32_t count = 0;
        for (uint32_t done = 0; done < channels; done += 32)
            count += (int32_t)ONES(bits_at(bits, i * channels + done, channels - done < 32 ? channels - done : 32));
        counts[i] = (fresh ? 0 : counts[i]) + times * count;
    }
}

/* sums = 2 * (the sum of `size` columns of counts) - less; `sums` may be `counts`. */
TARGET static void NAME(pool_columns)(const int32_t *counts, uint32_t size, size_t channels, int32_t less, int32_t *sums)
{
    if (size == 2)
        for (size_t j = 0; j < channels; j++)
            sums[j] = 2 * (counts[j] + counts[j + channels]) - less;
    else
        for (size_t j = 0; j < channels; j++) {
            int32_t sum = 0;
            for (uint32_t i = 0; i < size; i++)
                sum += counts[i * channels + j];
            sums[j] = 2 * sum - less;
        }
}

/* sums = the sum of a window of `size` x `size` places of a map, one after the other. */
TARGET static void NAME(pool_sums)(const Sum *map, size_t row, size_t place, uint32_t size, size_t lanes, Sum *sums)
{
    if (size == 2) {
        for (size_t j = 0; j < lanes; j++)
            sums[j] = ((map[j] + map[j + place]) + map[j + row]) + map[j + row + place];
        return;
    }
    for (size_t j = 0; j < lanes; j++)
        sums[j] = map[j];
    for (uint32_t i = 1; i < size * size; i++)
        for (size_t j = 0; j < lanes; j++)
            sums[j] += map[i / size * row + i % size * place + j];
}

#endif
#ifndef BS_ONLY_COUNTS

/* current = sum / divisor, + bias, * scale, + offset: of some channels, from `first` on. */
TARGET static void NAME(reals_to_current)(const bs_layer *layer, size_t first, size_t lanes, const Sum *sums,
                                          uint32_t divisor, bs_number *current)
{
    for (size_t j = 0; j < lanes; j++)
        current[j] = real_mean_of(sums[j], divisor);
    if (layer->bias)
        for (size_t j = 0; j < lanes; j++)
            current[j] = plus(current[j], layer->bias[first + j]);
    if (layer->scale)
        for (size_t j = 0; j < lanes; j++)
            current[j] = plus(times(layer->scale[first + j], current[j]), layer->offset[first + j]);
}

#endif
