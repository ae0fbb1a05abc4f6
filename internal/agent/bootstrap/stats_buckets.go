package bootstrap

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/config/metrics/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

const bucketsAnnotation = "sidecar.istio.io/statsHistogramBuckets"

// histogramBuckets parses the annotation {"cluster.xds-grpc": [1,5,10], …}: upper bounds of buckets
// by prefix of statistics names. It fails if bounds are not positive and distinct.
func histogramBuckets(in Input) ([]*metricsv3.HistogramBucketSettings, error) {
	text := in.Node.Metadata.Annotations[bucketsAnnotation]
	if text == "" {
		return nil, nil
	}
	var byPrefix map[string][]float64
	if err := json.Unmarshal([]byte(text), &byPrefix); err != nil {
		return nil, fmt.Errorf("annotation %s: want a JSON object of lists of numbers: %w", bucketsAnnotation, err)
	}
	var list []*metricsv3.HistogramBucketSettings
	for _, prefix := range slices.Sorted(maps.Keys(byPrefix)) {
		bounds := slices.Sorted(slices.Values(byPrefix[prefix]))
		if len(bounds) == 0 || bounds[0] <= 0 || len(slices.Compact(slices.Clone(bounds))) < len(bounds) {
			return nil, fmt.Errorf("annotation %s: the bounds of %q must be distinct numbers above 0, and at least one",
				bucketsAnnotation, prefix)
		}
		list = append(list, &metricsv3.HistogramBucketSettings{
			Match:   &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: prefix}},
			Buckets: bounds,
		})
	}
	return list, nil
}
