package nacos

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/metadata"
	"github.com/meshpilot/meshpilot/pkg/adapter"
)

// protocols are the protocols of Dubbo, with the port that callers use, as in the registry of
// ZooKeeper.
func protocols() map[string][2]string {
	return map[string][2]string{"dubbo": {"tcp", "20880"}, "tri": {"grpc", "50051"}, "rest": {"http", "80"}}
}

// convert converts the instances of a service by metadata.NewService. They are sorted by ID before.
func (s *Settings) convert(k serviceKey, instances []instance) (*adapter.Service, error) {
	list := make([]metadata.Registration, 0, len(instances))
	for _, i := range instances {
		list = append(list, registrationOf(&i))
	}
	slices.SortFunc(list, func(a, b metadata.Registration) int { return cmp.Compare(a.ID, b.ID) })
	return metadata.NewService(s.key(k), s.host(k), list)
}

// key returns the key of a service in the mesh.
func (s *Settings) key(k serviceKey) adapter.ServiceKey {
	return adapter.ServiceKey{Namespace: s.Namespace, Name: k.group + "/" + k.name}
}

// host returns the host of a service: NAME.service.DOMAIN in the default group, otherwise
// NAME.GROUP.service.DOMAIN. Names of Dubbo's interfaces end with a colon, which is left out.
func (s *Settings) host(k serviceKey) string {
	name := metadata.HostPart(strings.Trim(k.name, ":"))
	if k.group != defaultGroup {
		name += "." + metadata.HostPart(k.group)
	}
	return name + ".service." + s.Domain
}

// registrationOf returns the registration of an instance. Its weight is in hundredths, since Nacos'
// has fractions, and a weight in the metadata is ignored. Protocols of Dubbo are replaced by ones
// for proxies, with a default service-port. Without a protocol, secure=true means HTTPS. The
// metadata of i are not modified.
func registrationOf(i *instance) metadata.Registration {
	meta := maps.Clone(i.Metadata)
	if meta == nil {
		meta = map[string]string{}
	}
	delete(meta, "weight")
	if p, known := protocols()[strings.ToLower(meta["protocol"])]; known {
		meta["protocol"] = p[0]
		if meta["service-port"] == "" {
			meta["service-port"] = p[1]
		}
	}
	if meta["protocol"] == "" && meta["secure"] == "true" { // of Spring Cloud
		meta["protocol"] = "https"
	}
	if meta["cluster"] == "" && i.ClusterName != "" {
		meta["cluster"] = i.ClusterName
	}
	r := metadata.Registration{
		ID: cmp.Or(i.ID, fmt.Sprintf("%s#%d#%s", i.IP, i.Port, i.ClusterName)), Address: i.IP, Port: i.Port,
		Metadata: meta, Region: "default", Health: healthOf(i),
	}
	if w := math.Round(i.Weight * 100); w >= 1 {
		r.Weight = uint32(min(w, 65535))
	}
	return r
}

// healthOf returns the health of an instance. A disabled instance, or one with a weight below
// 0.005, is Draining even if it is unhealthy.
func healthOf(i *instance) adapter.Health {
	switch {
	case !i.Enabled, i.Weight < 0.005:
		return adapter.Draining
	case !i.Healthy:
		return adapter.Unhealthy
	default:
		return adapter.Healthy
	}
}
