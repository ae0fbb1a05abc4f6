// Package metadata reads the metadata of instances in registries whose instances carry a map of
// texts, such as ZooKeeper and Eureka.
//
// The input is the map of one instance. The output is [Instance]: the keys with a meaning for the
// mesh, and labels made of the others, or a whole adapter.Service. Start reading with [Parse].
package metadata

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// The keys with a meaning for the mesh. All other keys become labels.
const (
	keyProtocol    = "protocol"
	keyServicePort = "service-port"
	keyAccount     = "service-account"
	keyNetwork     = "network"
	keyRegion      = "region"
	keyZone        = "zone"
	keySubZone     = "subzone"
	keyWeight      = "weight"
)

// maxWeight is the largest weight that is used; a higher one is reduced to it.
const maxWeight = 65535

// Instance is the metadata of an instance.
type Instance struct {
	// Protocol is the protocol that the instance declares, as ServiceEntries name it; "" if it
	// declares none or an unknown one.
	Protocol string
	// ServicePort is the port that callers use; 0 if the instance declares none.
	ServicePort uint32
	// ServiceAccount and Network are as in adapter.Instance.
	ServiceAccount, Network string
	// Region, Zone and SubZone are the declared location.
	Region, Zone, SubZone string
	// Weight is the declared weight, and WeightSet whether one is declared. Weight 0 means that the
	// instance should receive no new traffic.
	Weight    uint32
	WeightSet bool
	// Labels are the other keys whose name and value are valid in a label.
	Labels map[string]string
}

// Parse returns what the metadata of an instance declare. An invalid value of a key with a meaning
// is left out and named in the error; the result is usable nevertheless. A larger weight than
// maxWeight becomes maxWeight. All other keys become labels, unless a label cannot have the key or
// value.
func Parse(meta map[string]string) (Instance, error) {
	var i Instance
	var errs []error
	for key, value := range meta {
		switch key {
		case keyProtocol:
			p, known := mesh.ParseProtocol(value)
			if !known && value != "" {
				errs = append(errs, fmt.Errorf("metadata.protocol: %q is not a protocol", value))
			}
			i.Protocol = strings.ToUpper(string(p))
		case keyServicePort:
			n, err := strconv.ParseUint(value, 10, 16)
			if err != nil || n == 0 {
				errs = append(errs, fmt.Errorf("metadata.service-port: %q is not a port number", value))
				continue
			}
			i.ServicePort = uint32(n)
		case keyWeight:
			n, err := strconv.ParseUint(value, 10, 32)
			if err != nil {
				errs = append(errs, fmt.Errorf("metadata.weight: %q is not a number", value))
				continue
			}
			i.Weight, i.WeightSet = uint32(min(n, maxWeight)), true
		case keyAccount:
			i.ServiceAccount = value
		case keyNetwork:
			i.Network = value
		case keyRegion:
			i.Region = value
		case keyZone:
			i.Zone = value
		case keySubZone:
			i.SubZone = value
		default:
			i.addLabel(key, value)
		}
	}
	return i, joinSorted(errs)
}

// Locality returns "region/zone/subzone", without the missing parts at the end, or "" if no part is
// declared. A zone without a region is in the region "default"; a sub-zone alone is ignored.
func (i *Instance) Locality() string {
	region := i.Region
	if region == "" && i.Zone != "" {
		region = "default"
	}
	switch {
	case region == "":
		return ""
	case i.Zone == "":
		return region
	case i.SubZone == "":
		return region + "/" + i.Zone
	default:
		return region + "/" + i.Zone + "/" + i.SubZone
	}
}

// addLabel adds a label. It does nothing if the name or value is not valid for a label.
func (i *Instance) addLabel(key, value string) {
	if len(validation.IsQualifiedName(key)) > 0 || len(validation.IsValidLabelValue(value)) > 0 {
		return
	}
	if i.Labels == nil {
		i.Labels = map[string]string{}
	}
	i.Labels[key] = value
}

// DefaultPort returns the port that callers of a service use if its instances declare none: 443 for
// HTTPS and TLS, otherwise 80.
func DefaultPort(protocol string) uint32 {
	switch protocol {
	case "HTTPS", "TLS":
		return 443
	default:
		return 80
	}
}

// joinSorted joins errors in the order of their texts, because they come from a map. It returns nil
// without errors. It sorts errs in place.
func joinSorted(errs []error) error {
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}
