// Package registry tests what the objects of a real cluster come to mean: kube-apiserver and kube-controller-manager make
// EndpointSlices of pods, and the source, the filter, the converters and the snapshot make services of them, as they do in a
// control plane. Tests named …OnTheWire have a whole control plane and a simulated sidecar, and say for each change exactly what the
// sidecar is sent: endpoints alone where pods come and go, and nothing where an object was only written again.
package registry
