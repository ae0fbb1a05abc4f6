package bootstrap

import (
	"fmt"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	// defaultFlush is Envoy's own interval. It is written out because the eviction interval must be a multiple of it.
	defaultFlush = 5 * time.Second
	// maxFlush is what Envoy refuses.
	maxFlush = 5 * time.Minute
)

// flush is how often statistics go to sinks, and how often those that nothing used since are dropped; 0: never.
type flush struct{ interval, eviction time.Duration }

// statsFlush reads the annotations sidecar.istio.io/statsFlushInterval and statsEvictionInterval. The second is rounded to a
// multiple of the first, as the annotation promises and Envoy demands.
func statsFlush(in Input) (flush, error) {
	interval, err := intervalOf(in, "statsFlushInterval", defaultFlush)
	if err != nil {
		return flush{}, err
	}
	if interval >= maxFlush {
		return flush{}, fmt.Errorf("annotation sidecar.istio.io/statsFlushInterval: %v is not less than %v", interval, maxFlush)
	}
	eviction, err := intervalOf(in, "statsEvictionInterval", 0)
	if err != nil {
		return flush{}, err
	}
	if eviction > 0 {
		eviction = max(eviction.Round(interval), interval)
	}
	return flush{interval, eviction}, nil
}

// intervalOf reads an annotation of sidecar.istio.io that holds a duration. Envoy counts it in milliseconds.
func intervalOf(in Input, name string, otherwise time.Duration) (time.Duration, error) {
	text := in.Node.Metadata.Annotations["sidecar.istio.io/"+name]
	if text == "" {
		return otherwise, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Millisecond {
		return 0, fmt.Errorf("annotation sidecar.istio.io/%s: %q is not a duration such as 5s", name, text)
	}
	return d.Truncate(time.Millisecond), nil
}

func (f flush) apply(b *bootstrapv3.Bootstrap) {
	b.StatsFlushInterval = durationpb.New(f.interval)
	if f.eviction > 0 {
		b.StatsEviction = &bootstrapv3.Bootstrap_StatsEvictionInterval{StatsEvictionInterval: durationpb.New(f.eviction)}
	}
}
