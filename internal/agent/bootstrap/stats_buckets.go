package bootstrap

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/config/metrics/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	bucketsAnnotation = "sidecar.istio.io/statsHistogramBuckets"
	binsAnnotation    = "sidecar.istio.io/statsHistogramBins"

	// meshStats is the prefix of the mesh's metrics in Envoy.
	meshStats = "istio_"
	// maxBins is Envoy's limit of HistogramBucketSettings.bins.
	maxBins = 46082
)

// histogramSettings returns the buckets, then the bins, that the pod's annotations configure, or
// nil without these annotations. Envoy uses the first entry with buckets and the first with bins
// that match, so the two are independent. Invalid settings are left out, with a warning.
func histogramSettings(in Input) (list []*metricsv3.HistogramBucketSettings, warnings []error) {
	list, warnings = histogramBuckets(in)
	bins, err := histogramBins(in)
	if err != nil {
		warnings = append(warnings, err)
	}
	return append(list, bins...), warnings
}

// histogramBuckets parses the annotation {"cluster.xds-grpc": [1,5,10], …}: upper bounds of buckets
// by prefix of statistics names, which envoyPrefixes maps. It sorts bounds in ascending order, and
// a prefix before all shorter ones of the same beginning. It returns nil without the annotation. A
// text that is no such object, and a prefix whose bounds are missing, equal or not positive, are
// left out, with a warning.
func histogramBuckets(in Input) (list []*metricsv3.HistogramBucketSettings, warnings []error) {
	text := in.Node.Metadata.Annotations[bucketsAnnotation]
	if text == "" {
		return nil, nil
	}
	var byPrefix map[string][]float64
	if err := json.Unmarshal([]byte(text), &byPrefix); err != nil {
		return nil, []error{
			fmt.Errorf("annotation %s: want a JSON object of lists of numbers: %w", bucketsAnnotation, err),
		}
	}
	for _, prefix := range slices.Sorted(maps.Keys(byPrefix)) {
		bounds := slices.Sorted(slices.Values(byPrefix[prefix]))
		if len(bounds) == 0 || bounds[0] <= 0 || len(slices.Compact(slices.Clone(bounds))) < len(bounds) {
			warnings = append(warnings, fmt.Errorf(
				"annotation %s: the bounds of %q must be distinct numbers above 0, and at least one",
				bucketsAnnotation, prefix))
			continue
		}
		for _, name := range envoyPrefixes(prefix) {
			list = append(list, &metricsv3.HistogramBucketSettings{Match: prefixMatch(name), Buckets: bounds})
		}
	}
	// Envoy uses the first prefix that matches, so a longer one must come first.
	slices.SortStableFunc(list, func(a, b *metricsv3.HistogramBucketSettings) int {
		return strings.Compare(b.GetMatch().GetPrefix(), a.GetMatch().GetPrefix())
	})
	return list, warnings
}

// histogramBins returns one setting, for the prefix meshStats, with the number in the annotation
// binsAnnotation. It is the initial number of bins of each histogram of the mesh's metrics. It
// returns nil without the annotation, and an error unless the number is from 1 to maxBins.
func histogramBins(in Input) ([]*metricsv3.HistogramBucketSettings, error) {
	text := strings.TrimSpace(in.Node.Metadata.Annotations[binsAnnotation])
	if text == "" {
		return nil, nil
	}
	bins, err := strconv.ParseUint(text, 10, 32)
	if err != nil || bins < 1 || bins > maxBins {
		return nil, fmt.Errorf("annotation %s: %q is not a number from 1 to %d", binsAnnotation, text, maxBins)
	}
	return []*metricsv3.HistogramBucketSettings{{
		Match: prefixMatch(meshStats), Bins: wrapperspb.UInt32(uint32(bins)),
	}}, nil
}

// envoyPrefixes returns the prefixes in this Envoy of the metrics that a prefix of Istio's names
// matches. "istiocustom.X" becomes X; "istiocustom", with or without the dot, and a beginning of it
// longer than "istio" become istio_; others stay. Three histograms have short names here (istio_ms,
// istio_rx, istio_tx), which the agent replaces in scrapes. They are added if the prefix matches
// only their long names.
func envoyPrefixes(prefix string) []string {
	const custom = "istiocustom"
	metric, ok := strings.CutPrefix(prefix, custom+".")
	switch {
	case !ok && strings.HasPrefix(custom, prefix) && !strings.HasPrefix(meshStats, prefix), ok && metric == "":
		return []string{meshStats}
	case !ok:
		metric = prefix
	}
	list := []string{metric}
	for _, short := range []struct{ istio, envoy string }{
		{"istio_request_duration_milliseconds", "istio_ms"},
		{"istio_request_bytes", "istio_rx"},
		{"istio_response_bytes", "istio_tx"},
	} {
		if strings.HasPrefix(short.istio, metric) && !strings.HasPrefix(short.envoy, metric) {
			list = append(list, short.envoy)
		}
	}
	return list
}

// prefixMatch returns a matcher of all names with the prefix.
func prefixMatch(prefix string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: prefix}}
}
