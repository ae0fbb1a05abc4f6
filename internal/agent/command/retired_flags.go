package command

import (
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/agent/proxyconfig"
	"github.com/meshpilot/meshpilot/internal/model/retired"
)

const (
	plaintextPort = "15010"
	securePort    = "15012"
)

// retiredLayers returns a layer of ProxyConfig for each retired flag that is set and has a field,
// in the order of the table. They override every other layer: an explicit flag takes precedence, as
// in Istio 1.x. It returns an error with the flag's name for an invalid value.
func retiredLayers(fs *pflag.FlagSet) ([]proxyconfig.Layer, error) {
	var layers []proxyconfig.Layer
	for _, f := range retired.AgentFlags() {
		if f.Field == "" || !fs.Changed(f.Name) {
			continue
		}
		value, err := retiredValue(fs, f)
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", f.Name, err)
		}
		layers = append(layers, proxyconfig.Layer{Name: "flag --" + f.Name, YAML: nestedJSON(f.Field, value)})
	}
	return layers, nil
}

// retiredValue returns the JSON of a flag's value in the encoding of its protobuf field. A duration
// becomes a string in seconds, a port or boolean stays as it is, and any other text becomes a
// string. An invalid duration is an error.
func retiredValue(fs *pflag.FlagSet, f retired.Flag) (string, error) {
	text := fs.Lookup(f.Name).Value.String()
	switch f.Type {
	case retired.Duration: // Go's form, 1m0s; protobuf's is 60s
		d, err := time.ParseDuration(text)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%q", fmt.Sprintf("%.9fs", d.Seconds())), nil
	case retired.Port, retired.Bool:
		return text, nil
	default:
		quoted, err := json.Marshal(text)
		return string(quoted), err
	}
}

// nestedJSON returns a JSON object with value, which is JSON, at a path with dots: {"tracing":
// {"zipkin": {"address": VALUE}}}.
func nestedJSON(path, value string) string {
	for _, name := range slices.Backward(strings.Split(path, ".")) {
		value = fmt.Sprintf("{%q: %s}", name, value)
	}
	return value
}

// replaceRetiredPort changes the port of ProxyConfig.discoveryAddress if the retired flag set the
// address and the port is one of Istio's control planes before 1.6. It keeps the host and chooses
// the xDS port by controlPlaneAuthPolicy, as their agents did: the plaintext port for NONE, else
// the TLS port. It returns a warning, "" if the address is unchanged.
func replaceRetiredPort(fs *pflag.FlagSet, config *meshconfig.ProxyConfig) string {
	if !fs.Changed("discoveryAddress") {
		return ""
	}
	host, port, err := net.SplitHostPort(config.GetDiscoveryAddress())
	if err != nil || !slices.Contains([]string{"8080", "15003", "15005", "15007", plaintextPort, "15011"}, port) {
		return ""
	}
	now := securePort
	if config.GetControlPlaneAuthPolicy() == meshconfig.AuthenticationPolicy_NONE {
		now = plaintextPort
	}
	if port == now {
		return ""
	}
	before := config.GetDiscoveryAddress()
	config.DiscoveryAddress = net.JoinHostPort(host, now)
	return fmt.Sprintf("flag --discoveryAddress %s: using %s, the port of control planes for controlPlaneAuthPolicy %s",
		before, config.GetDiscoveryAddress(), config.GetControlPlaneAuthPolicy())
}
