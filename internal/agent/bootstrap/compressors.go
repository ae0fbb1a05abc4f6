package bootstrap

import (
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	brotliv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/compression/brotli/compressor/v3"
	gzipv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/compression/gzip/compressor/v3"
	zstdv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/compression/zstd/compressor/v3"
	compressorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/compressor/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
)

// newCompressors returns the filters that compress metrics for clients that accept it. The
// annotation sidecar.istio.io/statsCompression selects one algorithm. Without it brotli, zstd and
// gzip are offered, in this order, or none if ProxyConfig.statsCompression is false. Another
// algorithm is an error; the filters are then the same as without the annotation.
func newCompressors(in Input) (filters []*hcmv3.HttpFilter, err error) {
	algorithms := []string{"brotli", "zstd", "gzip"}
	chosen := in.Node.Metadata.Annotations["sidecar.istio.io/statsCompression"]
	offered := in.Config.GetStatsCompression()
	if chosen != "" && compressorLibrary(chosen) == nil {
		err = fmt.Errorf(
			"annotation sidecar.istio.io/statsCompression: unknown algorithm %q: want brotli, gzip or zstd", chosen)
		chosen = ""
	}
	switch {
	case chosen != "":
		algorithms = []string{chosen}
	case offered != nil && !offered.GetValue():
		return nil, err
	}
	for _, algorithm := range algorithms {
		filters = append(filters, &hcmv3.HttpFilter{
			Name: "envoy.filters.http.compressor." + algorithm,
			ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: mustPack(&compressorv3.Compressor{
				CompressorLibrary: &corev3.TypedExtensionConfig{
					Name:        "envoy.compression." + algorithm + ".compressor",
					TypedConfig: mustPack(compressorLibrary(algorithm)),
				},
			})},
		})
	}
	return filters, err
}

// compressorLibrary returns the default settings of the compression algorithm brotli, gzip or zstd,
// or nil for any other.
func compressorLibrary(algorithm string) proto.Message {
	switch algorithm {
	case "brotli":
		return &brotliv3.Brotli{}
	case "gzip":
		return &gzipv3.Gzip{}
	case "zstd":
		return &zstdv3.Zstd{}
	default:
		return nil
	}
}
