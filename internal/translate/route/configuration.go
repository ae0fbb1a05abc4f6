package route

import (
	"google.golang.org/protobuf/encoding/protowire"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// maxDirectResponseBytes limits the bodies of direct responses
// (RouteConfiguration.max_direct_response_body_size_bytes).
const maxDirectResponseBytes = 1 << 20

// configuration builds an encoded RouteConfiguration, with its fields in the order of their
// numbers.
type configuration struct {
	body []byte
}

// newConfiguration returns an unfinished configuration with a name and virtual hosts, in their
// order; nil elements are skipped.
func newConfiguration(name string, hosts []*virtualHost) *configuration {
	size := 512 // the name, the catch-all and the fields of finish
	for _, h := range hosts {
		if h != nil {
			size += len(h.encoded)
		}
	}
	c := &configuration{body: appendString(make([]byte, 0, size), configNameField, name)}
	for _, h := range hosts {
		if h != nil {
			c.body = append(c.body, h.encoded...)
		}
	}
	return c
}

// finish appends the fields that follow the virtual hosts: it removes mesh.LostRequestHeader from
// responses, limits direct responses, and turns off validation of clusters. If ignorePort is set,
// Envoy ignores the port in the host of requests. If destination is set, requests are forwarded
// without mesh.DestinationHeader.
func (c *configuration) finish(ignorePort, destination bool) {
	c.body = appendString(c.body, configRemoveField, mesh.LostRequestHeader) // after the last retry
	// BoolValue false: a route may be sent before its cluster.
	c.body = appendMessage(c.body, configValidateField, nil)
	if destination {
		c.body = appendString(c.body, configRemoveRequestField, mesh.DestinationHeader)
	}
	limit := protowire.AppendVarint(
		protowire.AppendTag(nil, uint32ValueField, protowire.VarintType),
		maxDirectResponseBytes,
	)
	c.body = appendMessage(c.body, configBodyLimitField, limit)
	if ignorePort {
		c.body = protowire.AppendVarint(protowire.AppendTag(c.body, configIgnorePortField, protowire.VarintType), 1)
	}
}

// appendMessage appends a field whose value is an encoded message or other bytes.
func appendMessage(b []byte, field protowire.Number, body []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), body)
}

// addCatchAll appends the virtual host of unknown hosts. It forwards requests to cluster, or
// answers them with 502 if cluster is "". If attempts is set, requests carry the number of their
// attempt.
func (c *configuration) addCatchAll(cluster string, attempts bool) {
	name, r := "block_all", blockedRoute()
	if cluster != "" {
		name, r = "allow_any", passthroughRoute(cluster)
	}
	c.body = appendHost(c.body, name, []string{"*"}, encodeRoutes([]*routev3.Route{r}), attempts)
}
