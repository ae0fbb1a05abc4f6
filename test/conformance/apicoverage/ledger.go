package apicoverage

import (
	"embed"
	"fmt"
	"strings"

	extensions "istio.io/api/extensions/v1alpha1"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	networkingv1beta1 "istio.io/api/networking/v1beta1"
	security "istio.io/api/security/v1beta1"
	telemetry "istio.io/api/telemetry/v1alpha1"

	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

// Subject is a message of the API whose fields the ledger lists.
type Subject struct {
	// Name is also the name of its file in lines/.
	Name string
	Type proto.Message
	// Kind is the kind of object whose spec it is; "" for settings.
	Kind api.Kind
}

// Subjects returns all of them. The networking API has one set of messages for v1, v1beta1 and
// v1alpha3.
func Subjects() []Subject {
	return []Subject{
		{"VirtualService", new(networking.VirtualService), api.VirtualService},
		{"DestinationRule", new(networking.DestinationRule), api.DestinationRule},
		{"ServiceEntry", new(networking.ServiceEntry), api.ServiceEntry},
		{"WorkloadEntry", new(networking.WorkloadEntry), api.WorkloadEntry},
		{"WorkloadGroup", new(networking.WorkloadGroup), api.WorkloadGroup},
		{"Sidecar", new(networking.Sidecar), api.Sidecar},
		{"Gateway", new(networking.Gateway), api.Gateway},
		{"EnvoyFilter", new(networking.EnvoyFilter), api.EnvoyFilter},
		{"ProxyConfig", new(networkingv1beta1.ProxyConfig), api.ProxyConfig},
		{"PeerAuthentication", new(security.PeerAuthentication), api.PeerAuthentication},
		{"AuthorizationPolicy", new(security.AuthorizationPolicy), api.AuthorizationPolicy},
		{"RequestAuthentication", new(security.RequestAuthentication), api.RequestAuthentication},
		{"Telemetry", new(telemetry.Telemetry), api.Telemetry},
		{"WasmPlugin", new(extensions.WasmPlugin), api.WasmPlugin},
		{"TrafficExtension", new(extensions.TrafficExtension), api.TrafficExtension},
		{"MeshConfig", new(meshconfig.MeshConfig), ""},
		{"MeshConfig.defaultConfig", new(meshconfig.ProxyConfig), ""},
		{"MeshNetworks", new(meshconfig.MeshNetworks), ""},
		{"MeshNetworks.networks", new(meshconfig.Network), ""},
	}
}

// State is the kind of effect of a field.
type State string

// The states that a field can be in.
const (
	Done     State = "done"
	Rejected State = "rejected"
	Obsolete State = "obsolete"
	// Default is set if the value has the same effect as leaving it out: "mtls.mode=PERMISSIVE".
	// Other values differ.
	Default State = "default"
	// As means that all fields below a field are covered by another field, or by another subject,
	// of the same type.
	As State = "as"
)

// Line is the account of one field.
type Line struct {
	Field string // as config.Leaves names it
	State State
	// By is the case of a supported field, or the reason for an obsolete one. For a rejected field
	// it may be a case in which the product reports the rejection, if the field alone does not
	// cause it.
	By string
	// Like is the field that covers this one.
	Like string
}

//go:embed lines
var lines embed.FS

// Lines reads the account of a subject, in the order of the file.
func Lines(s Subject) ([]Line, error) {
	text, err := lines.ReadFile("lines/" + s.Name + ".txt")
	if err != nil {
		return nil, err
	}
	var list []Line
	for i, row := range strings.Split(string(text), "\n") {
		if row == "" || strings.HasPrefix(row, "#") {
			continue
		}
		line, err := parseLine(row)
		if err != nil {
			return nil, fmt.Errorf("lines/%s.txt:%d: %w", s.Name, i+1, err)
		}
		list = append(list, line)
	}
	return list, nil
}

func parseLine(row string) (Line, error) {
	words := strings.Fields(row)
	if len(words) < 2 {
		return Line{}, fmt.Errorf("%q: want a field, its state, and the case or reason", row)
	}
	l := Line{Field: words[0], State: State(words[1]), By: strings.Join(words[2:], " ")}
	if l.State == As {
		l.Like, l.By, _ = strings.Cut(l.By, " ")
	}
	switch l.State {
	case Done, Default, Obsolete, As:
		if l.By == "" {
			return Line{}, fmt.Errorf("%s: a field that is %s needs a case or a reason", l.Field, l.State)
		}
	case Rejected:
	default:
		return Line{}, fmt.Errorf("%s: no field is %q", l.Field, l.State)
	}
	return l, nil
}
