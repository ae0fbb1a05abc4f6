// Package registry tests how the objects of a real cluster are translated: kube-apiserver and
// kube-controller-manager make EndpointSlices of pods, and the source, the filter, the converters
// and the snapshot make services of them, as they do in a control plane. Tests named …OnTheWire
// have a whole control plane and a simulated sidecar, and check for each change exactly the
// resources that the sidecar is sent: endpoints alone where pods come and go, and nothing where an
// object was only written again.
package registry
