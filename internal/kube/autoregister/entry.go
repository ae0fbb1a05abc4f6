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

// The annotations of a WorkloadEntry, as in Istio.
var (
	groupAnnotation        = annotation.IoIstioAutoRegistrationGroup.Name
	controllerAnnotation   = annotation.IoIstioWorkloadController.Name
	connectedAnnotation    = annotation.IoIstioConnectedAt.Name
	disconnectedAnnotation = annotation.IoIstioDisconnectedAt.Name
)

// healthCheckAnnotation marks an entry whose agent reports the application's health. Without the
// condition Healthy such an entry gets no traffic.
const healthCheckAnnotation = "proxy.istio.io/health-checks-enabled"

// Entry is a copy of a WorkloadEntry.
type Entry struct {
	Namespace, Name string
	// Version is the resource version, or "" for a new entry.
	Version             string
	Labels, Annotations map[string]string
	Spec                *networking.WorkloadEntry
	// Conditions are the status conditions, undecoded.
	Conditions []any
	// Group is the owner of a new entry.
	Group Owner
}

// Owner is the WorkloadGroup of a new entry.
type Owner struct{ Name, UID string }

// annotationTime returns the time in an annotation, or the zero time if it is missing or invalid.
func (e *Entry) annotationTime(annotation string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, e.Annotations[annotation])
	if err != nil {
		return time.Time{}
	}
	return t
}

// hasHealthCheck reports whether the health that an agent reports is written to the entry: whether
// it has the annotation, with any value, as in Istio. Whether the health is used depends on the
// value.
func (e *Entry) hasHealthCheck() bool {
	_, annotated := e.Annotations[healthCheckAnnotation]
	return annotated
}

// connectedAnnotations returns the changes of annotations for an entry whose proxy is connected to
// a replica (controller) since a time; nil removes an annotation.
func connectedAnnotations(controller string, since time.Time) map[string]any {
	return map[string]any{
		controllerAnnotation:   controller,
		connectedAnnotation:    formatTime(since),
		disconnectedAnnotation: nil,
	}
}

// disconnectedAnnotations returns the changes of annotations for an entry whose proxy has
// disconnected at a time; nil removes an annotation. The controller annotation stays, because that
// replica removes the entry.
func disconnectedAnnotations(at time.Time) map[string]any {
	return map[string]any{connectedAnnotation: nil, disconnectedAnnotation: formatTime(at)}
}

func formatTime(t time.Time) string { return t.Format(time.RFC3339Nano) }

// maxNameLength is the maximum length of an object name.
const maxNameLength = 253

// entryName returns the name of a proxy's entry, GROUP-ADDRESS or GROUP-ADDRESS-NETWORK, with the
// proxy's first address and "-" for each ":". Names longer than maxNameLength are truncated at the
// front, because the end is unique. It returns an error if the proxy has no address.
func entryName(p *mesh.Proxy) (string, error) {
	if len(p.Addresses) == 0 {
		return "", errors.New("the proxy has no address")
	}
	name := p.Metadata.AutoRegisterGroup + "-" + strings.ReplaceAll(p.Addresses[0].String(), ":", "-")
	if p.Network != "" {
		name += "-" + string(p.Network)
	}
	if len(name) > maxNameLength {
		name = strings.TrimLeft(name[len(name)-maxNameLength:], "-.")
	}
	return name, nil
}

// newEntry returns the entry of a proxy with this name, from its WorkloadGroup's template. Its
// address is the proxy's first, which must exist, and network and locality are the proxy's if it
// has them. The proxy's labels override the group's metadata, which override the template's labels;
// the label istio-locality is left out. The annotations are the group's, with its name. The entry
// is marked for health checks if the agent probes the application.
func newEntry(name string, p *mesh.Proxy, group *config.Config) *Entry {
	spec := config.Spec[*networking.WorkloadGroup](group)
	entry := new(networking.WorkloadEntry)
	if spec.Template != nil {
		entry, _ = proto.Clone(spec.Template).(*networking.WorkloadEntry)
	}
	entry.Address = p.Addresses[0].String()
	entry.Labels = mergeMaps(entry.Labels, spec.GetMetadata().GetLabels(), p.Metadata.Labels)
	// contains slashes, which are invalid in labels; entry.Locality has it
	delete(entry.Labels, "istio-locality")
	if p.Network != "" {
		entry.Network = string(p.Network)
	}
	if l := p.Locality.String(); l != "" {
		entry.Locality = l
	}
	annotations := mergeMaps(map[string]string{groupAnnotation: group.Name}, spec.GetMetadata().GetAnnotations())
	if hasReadinessProbe(p) {
		annotations[healthCheckAnnotation] = "true"
	}
	return &Entry{
		Namespace: group.Namespace, Name: name, Labels: maps.Clone(entry.Labels), Annotations: annotations, Spec: entry,
		Group: Owner{Name: group.Name},
	}
}

// hasReadinessProbe reports whether the proxy's agent probes its application: whether its
// ProxyConfig has a readinessProbe other than null. It returns false if the ProxyConfig is
// malformed.
func hasReadinessProbe(p *mesh.Proxy) bool {
	var own struct {
		ReadinessProbe json.RawMessage `json:"readinessProbe"`
	}
	if len(p.Metadata.ProxyConfig) > 0 && json.Unmarshal(p.Metadata.ProxyConfig, &own) == nil &&
		len(own.ReadinessProbe) > 0 {
		return string(own.ReadinessProbe) != "null"
	}
	return false
}

// mergeMaps returns a new map with the entries of all maps; later ones override earlier ones. The
// result is never nil.
func mergeMaps(list ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range list {
		maps.Copy(out, m)
	}
	return out
}

// checkAccount returns an error unless the proxy is authenticated in the entry's namespace and as
// its service account; an empty account allows all of the namespace.
func checkAccount(p *mesh.Proxy, namespace, account string) error {
	switch a := p.Account; {
	case a.Namespace == "":
		return errors.New("the proxy is not authenticated; auto-registration requires it")
	case a.Namespace != namespace:
		return fmt.Errorf("the proxy is authenticated in namespace %q, but registers in %q", a.Namespace, namespace)
	case account != "" && a.Name != account:
		return fmt.Errorf("the proxy is authenticated as service account %q, but the entry requires %q",
			a.Name, account)
	}
	return nil
}
