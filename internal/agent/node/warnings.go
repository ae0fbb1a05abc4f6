package node

// Warnings returns a warning for each annotation that is set but not supported.
func Warnings(n Node) []string {
	var list []string
	for _, unsupported := range []struct{ name, why string }{
		{"sidecar.istio.io/statsHistogramBins", "the buckets of the mesh's histograms cannot be configured"},
	} {
		if _, set := n.Metadata.Annotations[unsupported.name]; set {
			list = append(list, "annotation "+unsupported.name+" has no effect: "+unsupported.why)
		}
	}
	return list
}
