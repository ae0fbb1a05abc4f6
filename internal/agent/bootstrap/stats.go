package bootstrap

import (
	"errors"
	"strings"

	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/config/metrics/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// statsConfig returns which statistics Envoy keeps, which parts of their names become labels, and
// the buckets of histograms. The errors of all three are joined.
func statsConfig(in Input) (*metricsv3.StatsConfig, error) {
	matcher, matcherErr := statsMatcher(in)
	tags, tagsErr := statsTags(in)
	buckets, bucketsErr := histogramSettings(in)
	if err := errors.Join(matcherErr, tagsErr, bucketsErr); err != nil {
		return nil, err
	}
	return &metricsv3.StatsConfig{
		StatsTags:               tags,
		UseAllDefaultTags:       wrapperspb.Bool(false),
		StatsMatcher:            matcher,
		HistogramBucketSettings: buckets,
	}, nil
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
