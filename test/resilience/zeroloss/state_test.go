package zeroloss

import (
	"embed"
	"fmt"
	"strings"
	"text/template"
)

//go:embed testdata
var testdata embed.FS

// state contains the settings of the rules; events change it.
type state struct {
	Suffix string // of the names of ports
	// KubeSuffix and SliceSuffix are those of kube: of its Service, and of its EndpointSlice, which Kubernetes renames later.
	KubeSuffix, SliceSuffix string

	Addresses      []string
	MaxConnections int
	Subset         bool // there is a subset v2, and routes name it
	V1, V2         int  // weights
	TLS            bool // of dual.mesh
	Broken         string
	Peers          string // what echo.mesh takes of its peers; "": the default, PERMISSIVE
	MeshRoutes     bool   // HTTPRoutes apply to kube
	Denied         string // path at echo.mesh that an AuthorizationPolicy denies; "": no policy
	Generation     int    // in the answers' headers
}

// servers are the addresses of version v1; the first is the pod's own.
func servers(n int) []string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("10.66.1.%d", 10+i))
	}
	return list
}

func firstState() state {
	return state{Addresses: servers(1), MaxConnections: 1000, V1: 100}
}

// text returns the objects of a host as one YAML text.
func (s state) text(host string) (string, error) {
	t, err := template.ParseFS(testdata, "testdata/"+host+".yaml.tmpl")
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = t.Execute(&b, s)
	return b.String(), err
}
