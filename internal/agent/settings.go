package agent

import (
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/agent/relay"
	"github.com/meshpilot/meshpilot/internal/agent/secret"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// ownTypes are what the agent asks the control plane for itself.
func (a *agent) ownTypes() []*relay.Own {
	var list []*relay.Own
	if a.Environment.XDS.ProxyConfig {
		list = append(list, &relay.Own{TypeURL: api.ProxyConfigType, Use: a.useSettings})
	}
	if a.names != nil {
		list = append(list, &relay.Own{TypeURL: api.NameTableType, Use: a.useNames})
	}
	return list
}

// useSettings takes the mesh's settings for agents. Of these only the authorities that the mesh trusts can change while Envoy
// runs.
func (a *agent) useSettings(body []byte) error {
	var config meshconfig.ProxyConfig
	if err := proto.Unmarshal(body, &config); err != nil {
		return fmt.Errorf("read ProxyConfig: %w", err)
	}
	return a.trust(&config)
}

// trust takes the authorities that the mesh trusts besides the one that signs.
func (a *agent) trust(config *meshconfig.ProxyConfig) error {
	anchors := make([]mesh.TrustAnchor, len(config.GetCaCertificatesPem()))
	texts := make([][]byte, len(anchors))
	for i, text := range config.GetCaCertificatesPem() {
		anchors[i] = mesh.ParseTrustAnchor(text)
		texts[i] = []byte(anchors[i].PEM)
	}
	all, err := secret.Join(texts...)
	if err != nil {
		return fmt.Errorf("ProxyConfig.caCertificatesPem: %w", err)
	}
	if a.renewer != nil {
		a.renewer.Trust(all, byDomain(anchors)...)
	}
	return nil
}

// byDomain gives the certificates by the trust domains that they vouch for; none if that is not said of any.
func byDomain(anchors []mesh.TrustAnchor) []secret.Domain {
	texts := map[string][]byte{}
	for _, a := range anchors {
		for _, d := range a.Domains {
			texts[d] = append(append(texts[d], a.PEM...), '\n')
		}
	}
	list := make([]secret.Domain, 0, len(texts))
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		list = append(list, secret.Domain{Name: name, Roots: texts[name]})
	}
	return list
}
