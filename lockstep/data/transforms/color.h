// Changing the colours of a picture in place, with the bytes of Pillow's ImageEnhance and ImageOps,
// which torchvision calls.
#pragma once

#include "lockstep/data/decode/image.h"

namespace lockstep::data {

// Factor 1 changes nothing; 0 is black, gray, without colour, or smooth.
void adjust_brightness(Image& image, double factor);
void adjust_contrast(Image& image, double factor);
void adjust_saturation(Image& image, double factor);
void adjust_sharpness(Image& image, double factor);

// A turn around the circle of colours, from -0.5 to 0.5.
void adjust_hue(Image& image, double factor);

void posterize(Image& image, int bits);         // Keeps the upper bits, 1 to 8 of them.
void solarize(Image& image, double threshold);  // Inverts bytes that are not below it.
void autocontrast(Image& image);                // Stretches each channel to 0 ... 255.
void equalize(Image& image);                    // Evens out each channel's histogram.

}  // namespace lockstep::data
