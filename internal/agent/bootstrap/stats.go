package bootstrap

import (
	"slices"
	"strings"

	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/config/metrics/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// statsConfig returns which statistics Envoy keeps, which parts of their names become labels, and
// the buckets of histograms, without the invalid settings, which are warnings.
func statsConfig(in Input) (*metricsv3.StatsConfig, []error) {
	matcher, matcherWarnings := statsMatcher(in)
	tags, tagsWarnings := statsTags(in)
	buckets, bucketsWarnings := histogramSettings(in)
	return &metricsv3.StatsConfig{
		StatsTags:               tags,
		UseAllDefaultTags:       wrapperspb.Bool(false),
		StatsMatcher:            matcher,
		HistogramBucketSettings: buckets,
	}, slices.Concat(matcherWarnings, tagsWarnings, bucketsWarnings)
}

// annotationList returns the non-empty entries of the comma-separated annotation
// sidecar.istio.io/name, trimmed, or nil.
func annotationList(in Input, name string) []string {
	var list []string
	for part := range strings.SplitSeq(in.Node.Metadata.Annotations["sidecar.istio.io/"+name], ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}
