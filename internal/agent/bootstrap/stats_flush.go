package bootstrap

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/config/metrics/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/durationpb"
)

func re2(expression string) error {
	_, err := regexp.Compile(expression) // Go's syntax is RE2's
	return err
}

// flush is how often statistics go to sinks, and how often unused ones are dropped; zero is Envoy's default.
type flush struct{ interval, eviction time.Duration }

// statsFlush reads the annotations sidecar.istio.io/statsFlushInterval and statsEvictionInterval.
func statsFlush(in Input) (flush, error) {
	f := flush{interval: 5 * time.Second} // Envoy's default, which the other must be a multiple of
	read := func(name string, into *time.Duration) error {
		text := in.Node.Metadata.Annotations["sidecar.istio.io/"+name]
		if text == "" {
			return nil
		}
		d, err := time.ParseDuration(text)
		if err != nil || d < time.Millisecond {
			return fmt.Errorf("annotation sidecar.istio.io/%s: %q is not a duration such as 5s", name, text)
		}
		*into = d
		return nil
	}
	if err := read("statsFlushInterval", &f.interval); err != nil {
		return flush{}, err
	}
	if err := read("statsEvictionInterval", &f.eviction); err != nil {
		return flush{}, err
	}
	if f.eviction%f.interval != 0 {
		return flush{}, fmt.Errorf("annotation sidecar.istio.io/statsEvictionInterval: %v is not a multiple of the flush interval %v", f.eviction, f.interval)
	}
	return f, nil
}

func (f flush) apply(b *bootstrapv3.Bootstrap) {
	b.StatsFlushInterval = durationpb.New(f.interval)
	if f.eviction > 0 {
		b.StatsEviction = &bootstrapv3.Bootstrap_StatsEvictionInterval{StatsEvictionInterval: durationpb.New(f.eviction)}
	}
}

// histogramBuckets reads the annotation sidecar.istio.io/statsHistogramBuckets: {"istiocustom": [1,5,10], …}, by prefix.
func histogramBuckets(in Input) ([]*metricsv3.HistogramBucketSettings, error) {
	const name = "sidecar.istio.io/statsHistogramBuckets"
	text := in.Node.Metadata.Annotations[name]
	if text == "" {
		return nil, nil
	}
	var byPrefix map[string][]float64
	if err := json.Unmarshal([]byte(text), &byPrefix); err != nil {
		return nil, fmt.Errorf("annotation %s: want a JSON object of lists of numbers: %w", name, err)
	}
	var list []*metricsv3.HistogramBucketSettings
	for _, prefix := range slices.Sorted(maps.Keys(byPrefix)) {
		list = append(list, &metricsv3.HistogramBucketSettings{
			Match:   &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: prefix}},
			Buckets: byPrefix[prefix],
		})
	}
	return list, nil
}

// statsSinks are the places that statistics are pushed to: statsd, and Envoy's metrics service.
func statsSinks(in Input) []*metricsv3.StatsSink {
	var sinks []*metricsv3.StatsSink
	if in.Statsd != (netip.AddrPort{}) {
		address := socketAddress(in.Statsd.Addr().String(), uint32(in.Statsd.Port()))
		address.GetSocketAddress().Protocol = corev3.SocketAddress_UDP
		sinks = append(sinks, &metricsv3.StatsSink{
			Name: "envoy.stat_sinks.statsd",
			ConfigType: &metricsv3.StatsSink_TypedConfig{TypedConfig: packed(&metricsv3.StatsdSink{
				StatsdSpecifier: &metricsv3.StatsdSink_Address{Address: address},
			})},
		})
	}
	if in.Config.GetEnvoyMetricsService().GetAddress() != "" || in.Config.GetEnvoyMetricsServiceAddress() != "" {
		sinks = append(sinks, &metricsv3.StatsSink{
			Name: "envoy.stat_sinks.metrics_service",
			ConfigType: &metricsv3.StatsSink_TypedConfig{TypedConfig: packed(&metricsv3.MetricsServiceConfig{
				TransportApiVersion: corev3.ApiVersion_V3,
				GrpcService: &corev3.GrpcService{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
					EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: metricsCluster},
				}},
			})},
		})
	}
	return sinks
}
