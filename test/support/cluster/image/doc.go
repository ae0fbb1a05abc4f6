// Package image describes how container images are run without a container engine: from files of
// this machine.
//
// In: an image reference, as a Pod has it. Out: the entrypoint, files, environment and user that a
// container engine would find in the image. Images outside the [Map] cannot be pulled.
package image
