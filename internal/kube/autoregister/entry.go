package autoregister

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"istio.io/api/annotation"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// The annotations of a WorkloadEntry, as Istio has them.
var (
	groupAnnotation        = annotation.IoIstioAutoRegistrationGroup.Name
	controllerAnnotation   = annotation.IoIstioWorkloadController.Name
	connectedAnnotation    = annotation.IoIstioConnectedAt.Name
	disconnectedAnnotation = annotation.IoIstioDisconnectedAt.Name
)

// healthChecked is the annotation of an entry whose agent says how its application fares. Without the condition Healthy it
// gets no traffic.
const healthChecked = "proxy.istio.io/health-checks-enabled"

// Entry is a WorkloadEntry. It is a copy.
type Entry struct {
	Namespace, Name string
	// Version is the resource version; empty for one that is new.
	Version             string
	Labels, Annotations map[string]string
	Spec                *networking.WorkloadEntry
	// Conditions are those of the status, as they are.
	Conditions []any
	// Group is what the entry is made for; it goes when the group does.
	Group Owner
}

// Owner is the WorkloadGroup of an entry that is new.
type Owner struct{ Name, UID string }

// at gives a time of the annotations; the zero time if there is none, or none that can be read.
func (e *Entry) at(annotation string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, e.Annotations[annotation])
	if err != nil {
		return time.Time{}
	}
	return t
}

// checked says whether an agent is to say how the workload fares.
func (e *Entry) checked() bool { return strings.EqualFold(e.Annotations[healthChecked], "true") }

// connected gives the annotations of an entry whose proxy is connected here.
func connected(controller string, since time.Time) map[string]any {
	return map[string]any{controllerAnnotation: controller, connectedAnnotation: stamp(since), disconnectedAnnotation: nil}
}

// disconnected gives those of one whose proxy is gone. The controller stays: it is the one that removes the entry.
func disconnected(at time.Time) map[string]any {
	return map[string]any{connectedAnnotation: nil, disconnectedAnnotation: stamp(at)}
}

func stamp(t time.Time) string { return t.Format(time.RFC3339Nano) }

// maxName is the longest name that an object may have.
const maxName = 253

// entryName gives the name of a proxy's entry: of its group, its address and its network. Of one that is too long the end
// stays, which tells entries apart.
func entryName(p *mesh.Proxy) (string, error) {
	if len(p.Addresses) == 0 {
		return "", errors.New("the proxy has no address")
	}
	name := p.Metadata.AutoRegisterGroup + "-" + strings.ReplaceAll(p.Addresses[0].String(), ":", "-")
	if p.Network != "" {
		name += "-" + string(p.Network)
	}
	if len(name) > maxName {
		name = strings.TrimLeft(name[len(name)-maxName:], "-.")
	}
	return name, nil
}

// newEntry makes the entry of a proxy from its group. What the proxy says of itself goes before what the group's metadata say,
// and that before the template.
func newEntry(name string, p *mesh.Proxy, group *config.Config) *Entry {
	spec := config.Spec[*networking.WorkloadGroup](group)
	entry := new(networking.WorkloadEntry)
	if spec.Template != nil {
		entry, _ = proto.Clone(spec.Template).(*networking.WorkloadEntry)
	}
	entry.Address = p.Addresses[0].String()
	entry.Labels = merged(entry.Labels, spec.GetMetadata().GetLabels(), p.Metadata.Labels)
	delete(entry.Labels, "istio-locality") // has slashes, which labels must not have; it is in entry.Locality
	if p.Network != "" {
		entry.Network = string(p.Network)
	}
	if l := p.Locality.String(); l != "" {
		entry.Locality = l
	}
	annotations := merged(map[string]string{groupAnnotation: group.Name}, spec.GetMetadata().GetAnnotations())
	if probed(p) {
		annotations[healthChecked] = "true"
	}
	return &Entry{
		Namespace: group.Namespace, Name: name, Labels: maps.Clone(entry.Labels), Annotations: annotations, Spec: entry,
		Group: Owner{Name: group.Name},
	}
}

// probed says whether the agent of a proxy looks after its application: its ProxyConfig, which is made from the group, has the
// probe.
func probed(p *mesh.Proxy) bool {
	var own struct {
		ReadinessProbe json.RawMessage `json:"readinessProbe"`
	}
	if len(p.Metadata.ProxyConfig) > 0 && json.Unmarshal(p.Metadata.ProxyConfig, &own) == nil && len(own.ReadinessProbe) > 0 {
		return string(own.ReadinessProbe) != "null"
	}
	return false
}

func merged(list ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range list {
		maps.Copy(out, m)
	}
	return out
}

// mayHave says why a proxy must not have an entry; nil if it may. It must be authenticated as of the entry's namespace and service
// account.
func mayHave(p *mesh.Proxy, namespace, account string) error {
	switch is := p.Account; {
	case is.Namespace == "":
		return errors.New("the proxy is not authenticated, which a workload that registers must be")
	case is.Namespace != namespace:
		return fmt.Errorf("the proxy is authenticated as of namespace %q, and registers in %q", is.Namespace, namespace)
	case account != "" && is.Name != account:
		return fmt.Errorf("the proxy is authenticated as service account %q, and the entry is of %q", is.Name, account)
	}
	return nil
}
