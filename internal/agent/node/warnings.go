package node

// Warnings names the annotations that are set and have no effect yet.
func Warnings(n Node) []string {
	var list []string
	for _, later := range []struct{ name, why string }{
		{"sidecar.istio.io/statsHistogramBins", "it is for the mesh's standard metrics, which do not exist yet"},
	} {
		if _, set := n.Metadata.Annotations[later.name]; set {
			list = append(list, "annotation "+later.name+" has no effect: "+later.why)
		}
	}
	return list
}
