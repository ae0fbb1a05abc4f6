// Package registry tests what the objects of a real cluster come to mean: kube-apiserver and kube-controller-manager make
// EndpointSlices of pods, and the source, the filter, the converters and the snapshot make services of them, as they do in a
// control plane.
package registry
