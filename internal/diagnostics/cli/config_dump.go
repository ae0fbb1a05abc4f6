package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// dump is the part of a config_dump that the tables show. Envoy writes field names with
// underscores, and the control plane writes them in camel case. readDump accepts both.
type dump struct {
	Clusters  []cluster
	Listeners []listener
	Routes    []routeConfig
	Endpoints []assignment
	// Extensions are the filter configurations received by ECDS.
	Extensions []extension
	Secrets    []secret
	Bootstrap  json.RawMessage
	// hasEndpoints is set if the dump has a section of endpoints, which Envoy writes only on request.
	hasEndpoints bool
}

// original is the unmodified JSON of a resource.
type original struct{ raw json.RawMessage }

// setRaw stores the JSON of the resource.
func (o *original) setRaw(raw json.RawMessage) { o.raw = raw }

type metadata struct {
	FilterMetadata struct {
		Istio struct {
			Config string `json:"config"`
		} `json:"istio"`
	} `json:"filterMetadata"`
}

// objectName returns the "name.namespace" of the config object in the metadata, which has the form
// "/apis/networking.istio.io/v1/namespaces/shop/destination-rule/reviews". It returns "" if there
// is none.
func (m metadata) objectName() string {
	parts := strings.Split(m.FilterMetadata.Istio.Config, "/")
	if len(parts) < 8 {
		return ""
	}
	return parts[7] + "." + parts[5]
}

type cluster struct {
	original
	Name        string `json:"name"`
	Type        string `json:"type"`
	ClusterType struct {
		Name string `json:"name"`
	} `json:"clusterType"`
	Metadata metadata `json:"metadata"`
}

// discoveryType returns the discovery type of a cluster, or the name of its custom cluster type.
// The default is STATIC, as in Envoy.
func (c cluster) discoveryType() string { return cmp.Or(c.Type, c.ClusterType.Name, "STATIC") }

type socketAddress struct {
	SocketAddress struct {
		Address   string `json:"address"`
		PortValue uint32 `json:"portValue"`
	} `json:"socketAddress"`
	Pipe struct {
		Path string `json:"path"`
	} `json:"pipe"`
}

type listener struct {
	original
	Name                string `json:"name"`
	Address             socketAddress
	AdditionalAddresses []struct{ Address socketAddress } `json:"additionalAddresses"`
	FilterChains        []filterChain                     `json:"filterChains"`
	DefaultFilterChain  *filterChain                      `json:"defaultFilterChain"`
	UseOriginalDst      bool                              `json:"useOriginalDst"`
}

type filterChain struct {
	Match struct {
		DestinationPort      uint32   `json:"destinationPort"`
		ServerNames          []string `json:"serverNames"`
		TransportProtocol    string   `json:"transportProtocol"`
		ApplicationProtocols []string `json:"applicationProtocols"`
		PrefixRanges         []struct {
			AddressPrefix string `json:"addressPrefix"`
			PrefixLen     uint32 `json:"prefixLen"`
		} `json:"prefixRanges"`
	} `json:"filterChainMatch"`
	Filters []struct {
		Name        string `json:"name"`
		TypedConfig struct {
			Cluster          string `json:"cluster"`
			WeightedClusters struct {
				Clusters []struct{ Name string } `json:"clusters"`
			} `json:"weightedClusters"`
			RDS struct {
				RouteConfigName string `json:"routeConfigName"`
			} `json:"rds"`
			RouteConfig *routeConfig `json:"routeConfig"`
		} `json:"typedConfig"`
	} `json:"filters"`
}

type routeConfig struct {
	original
	Name         string `json:"name"`
	VirtualHosts []struct {
		Name    string   `json:"name"`
		Domains []string `json:"domains"`
		Routes  []struct {
			Match    map[string]any `json:"match"`
			Metadata metadata       `json:"metadata"`
			Route    struct {
				Cluster string `json:"cluster"`
			} `json:"route"`
		} `json:"routes"`
	} `json:"virtualHosts"`
}

type extension struct {
	original
	Name        string `json:"name"`
	TypedConfig struct {
		Type string `json:"@type"`
	} `json:"typedConfig"`
}

type assignment struct {
	original
	ClusterName string              `json:"clusterName"`
	Endpoints   []localityEndpoints `json:"endpoints"`
}

type localityEndpoints struct {
	Locality    locality     `json:"locality"`
	LbEndpoints []lbEndpoint `json:"lbEndpoints"`
}

type locality struct {
	Region  string `json:"region"`
	Zone    string `json:"zone"`
	SubZone string `json:"subZone"`
}

type lbEndpoint struct {
	HealthStatus string `json:"healthStatus"`
	Weight       uint32 `json:"loadBalancingWeight"`
	Endpoint     struct {
		Address socketAddress `json:"address"`
	} `json:"endpoint"`
	// outlierCheck is OK or FAILED; "" if unknown.
	outlierCheck string
}

// readDump parses a config_dump of Envoy or of the control plane, and merges static and dynamic
// resources. Warming clusters and listeners are left out, warming secrets are marked, and other
// sections are ignored. It also accepts Envoy's /clusters?format=json, and returns its endpoints
// only. It returns an error for any other document or a malformed entry.
func readDump(body []byte) (*dump, error) {
	var plain any
	if err := json.Unmarshal(body, &plain); err != nil {
		return nil, fmt.Errorf("read the config dump: %w", err)
	}
	named, err := json.Marshal(camelKeys(plain))
	if err != nil {
		return nil, fmt.Errorf("read the config dump: %w", err)
	}
	var top struct {
		Configs         []map[string]json.RawMessage `json:"configs"`
		ClusterStatuses []json.RawMessage            `json:"clusterStatuses"`
	}
	if err := json.Unmarshal(named, &top); err != nil {
		return nil, fmt.Errorf("read the config dump: %w", err)
	}
	d := new(dump)
	switch {
	case top.ClusterStatuses != nil:
		d.hasEndpoints = true
		d.Endpoints, err = assignmentsOf(top.ClusterStatuses)
		return d, err
	case top.Configs == nil:
		return nil, errors.New("read the config dump: want the output of /config_dump?include_eds or /clusters?format=json")
	}
	for _, section := range top.Configs {
		d.hasEndpoints = d.hasEndpoints || isEndpointsSection(section)
		if bootstrap := section["bootstrap"]; len(bootstrap) > 0 {
			d.Bootstrap = bootstrap
		}
		for _, list := range [][2]string{
			{"staticClusters", "cluster"},
			{"dynamicActiveClusters", "cluster"},
			{"dynamicListeners", "listener"},
			{"staticListeners", "listener"},
			{"dynamicRouteConfigs", "routeConfig"},
			{"staticRouteConfigs", "routeConfig"},
			{"dynamicEndpointConfigs", "endpointConfig"},
			{"staticEndpointConfigs", "endpointConfig"},
			{"ecdsFilters", "ecdsFilter"},
			{"staticSecrets", activeSecret},
			{"dynamicActiveSecrets", activeSecret},
			{"dynamicWarmingSecrets", warmingSecret},
		} {
			if err := d.addEntries(section[list[0]], list[1]); err != nil {
				return nil, fmt.Errorf("read the config dump: %s: %w", list[0], err)
			}
		}
	}
	return d, nil
}

// isEndpointsSection reports whether a section of a dump is the one of endpoints, even if it has
// none. It looks at the type, or without one at its lists.
func isEndpointsSection(section map[string]json.RawMessage) bool {
	return strings.Contains(string(section["@type"]), "EndpointsConfigDump") ||
		section["dynamicEndpointConfigs"] != nil || section["staticEndpointConfigs"] != nil
}

// addEntries parses a list of entries of a section and adds their resources to d. field is the name
// of the resource within each entry, or within its active state, and determines the type. An empty
// list, and entries without the field, are ignored. A malformed entry ends it with an error;
// earlier ones remain added.
func (d *dump) addEntries(list json.RawMessage, field string) error {
	if len(list) == 0 {
		return nil
	}
	var entries []map[string]json.RawMessage
	if err := json.Unmarshal(list, &entries); err != nil {
		return err
	}
	for _, e := range entries {
		raw := e[strings.TrimPrefix(field, warmingPrefix)]
		if active, ok := e["activeState"]; ok {
			var inner map[string]json.RawMessage
			if err := json.Unmarshal(active, &inner); err != nil {
				return err
			}
			raw = inner[field]
		}
		if len(raw) == 0 {
			continue
		}
		var err error
		switch field {
		case "cluster":
			err = appendTo(&d.Clusters, raw)
		case "listener":
			err = appendTo(&d.Listeners, raw)
		case "routeConfig":
			err = appendTo(&d.Routes, raw)
		case "endpointConfig":
			err = appendTo(&d.Endpoints, raw)
		case "ecdsFilter":
			err = appendTo(&d.Extensions, raw)
		case activeSecret, warmingSecret:
			if err = appendTo(&d.Secrets, raw); err == nil {
				d.Secrets[len(d.Secrets)-1].warming = field == warmingSecret
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// appendTo parses a resource, keeps its JSON and appends it to the list. It returns an error,
// without appending, if the resource cannot be parsed.
func appendTo[T any, P interface {
	*T
	setRaw(json.RawMessage)
}](list *[]T, raw json.RawMessage) error {
	var x T
	if err := json.Unmarshal(raw, &x); err != nil {
		return err
	}
	P(&x).setRaw(raw)
	*list = append(*list, x)
	return nil
}

// camelKeys converts the field names of a JSON value to camel case, as the control plane writes
// them. It may modify v, so callers must use only the result.
func camelKeys(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = camelKeys(v[i])
		}
		return v
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[camelName(k)] = camelKeys(x)
		}
		return out
	default:
		return v
	}
}

// camelName converts a field name with underscores to camel case. It returns names unchanged that
// have no underscore, or that contain a dot, bar, at sign or hyphen, because these are data.
func camelName(name string) string {
	if strings.ContainsAny(name, ".|@-") || !strings.Contains(name, "_") {
		return name
	}
	parts := strings.Split(name, "_")
	for i, p := range parts[1:] {
		if p != "" {
			parts[i+1] = strings.ToUpper(p[:1]) + p[1:]
		}
	}
	return strings.Join(parts, "")
}
