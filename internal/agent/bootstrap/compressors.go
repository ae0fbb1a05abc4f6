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
// annotation sidecar.istio.io/statsCompression selects one algorithm, and any other than brotli,
// zstd or gzip is an error. Without it all three are offered, in this order, or none if
// ProxyConfig.statsCompression is false.
func newCompressors(in Input) ([]*hcmv3.HttpFilter, error) {
	algorithms := []string{"brotli", "zstd", "gzip"}
	if one := in.Node.Metadata.Annotations["sidecar.istio.io/statsCompression"]; one != "" {
		algorithms = []string{one}
	} else if offered := in.Config.GetStatsCompression(); offered != nil && !offered.GetValue() {
		return nil, nil
	}
	var filters []*hcmv3.HttpFilter
	for _, algorithm := range algorithms {
		library := compressorLibrary(algorithm)
		if library == nil {
			return nil, fmt.Errorf(
				"annotation sidecar.istio.io/statsCompression: unknown algorithm %q: want brotli, gzip or zstd", algorithm)
		}
		filters = append(filters, &hcmv3.HttpFilter{
			Name: "envoy.filters.http.compressor." + algorithm,
			ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: mustPack(&compressorv3.Compressor{
				CompressorLibrary: &corev3.TypedExtensionConfig{
					Name:        "envoy.compression." + algorithm + ".compressor",
					TypedConfig: mustPack(library),
				},
			})},
		})
	}
	return filters, nil
}

// compressorLibrary returns the default settings of a compression algorithm, or nil if it is
// unknown.
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
