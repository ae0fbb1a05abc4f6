package bootstrap

import (
	"fmt"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	// defaultFlush is Envoy's default interval. It is set explicitly because the eviction interval
	// must be a multiple of it.
	defaultFlush = 5 * time.Second
	// maxFlush is the lowest interval that Envoy rejects.
	maxFlush = 5 * time.Minute
)

// flushIntervals holds how often statistics are sent to sinks, and how often unused ones are
// evicted (0: never).
type flushIntervals struct{ interval, eviction time.Duration }

// statsFlush parses the annotations sidecar.istio.io/statsFlushInterval (default defaultFlush) and
// statsEvictionInterval (default 0). The eviction interval is rounded to the nearest multiple of
// the flush interval, at least one, as Envoy requires. Invalid intervals, and a flush interval from
// maxFlush on, are replaced by their defaults, with a warning.
func statsFlush(in Input) (f flushIntervals, warnings []error) {
	interval, err := annotationDuration(in, "statsFlushInterval", defaultFlush)
	if interval >= maxFlush {
		err = fmt.Errorf("annotation sidecar.istio.io/statsFlushInterval: %v is not less than %v", interval, maxFlush)
		interval = defaultFlush
	}
	if err != nil {
		warnings = append(warnings, err)
	}
	eviction, err := annotationDuration(in, "statsEvictionInterval", 0)
	if err != nil {
		warnings = append(warnings, err)
	}
	if eviction > 0 {
		eviction = max(eviction.Round(interval), interval)
	}
	return flushIntervals{interval, eviction}, warnings
}

// annotationDuration returns the duration in the annotation sidecar.istio.io/name, truncated to
// Envoy's milliseconds, or fallback if it is not set. For a text that is no duration, or one below
// a millisecond, it returns fallback and an error.
func annotationDuration(in Input, name string, fallback time.Duration) (time.Duration, error) {
	text := in.Node.Metadata.Annotations["sidecar.istio.io/"+name]
	if text == "" {
		return fallback, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Millisecond {
		return fallback, fmt.Errorf("annotation sidecar.istio.io/%s: %q is not a duration such as 5s", name, text)
	}
	return d.Truncate(time.Millisecond), nil
}

// applyTo sets the intervals in a bootstrap. An eviction interval of 0 is not set.
func (f flushIntervals) applyTo(b *bootstrapv3.Bootstrap) {
	b.StatsFlushInterval = durationpb.New(f.interval)
	if f.eviction > 0 {
		b.StatsEviction = &bootstrapv3.Bootstrap_StatsEvictionInterval{StatsEvictionInterval: durationpb.New(f.eviction)}
	}
}
