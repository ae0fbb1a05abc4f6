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

// subscriptions returns the agent's own xDS subscriptions, each with the function that applies a
// response. They are ProxyConfig, if PROXY_CONFIG_XDS_AGENT enables it, and the name table, if
// there is a DNS proxy.
func (a *agent) subscriptions() []*relay.Subscription {
	var list []*relay.Subscription
	if a.Environment.XDS.ProxyConfig {
		list = append(list, &relay.Subscription{TypeURL: api.ProxyConfigType, Apply: a.applyProxyConfig})
	}
	if a.dnsServer != nil {
		list = append(list, &relay.Subscription{TypeURL: api.NameTableType, Apply: a.applyNameTable})
	}
	return list
}

// applyProxyConfig applies the mesh's ProxyConfig for agents. Only its trusted roots can change
// while Envoy runs: they replace the roots of the ProxyConfig before, and an empty list removes
// these. It returns an error, and changes nothing, if body or a root is malformed.
func (a *agent) applyProxyConfig(body []byte) error {
	var config meshconfig.ProxyConfig
	if err := proto.Unmarshal(body, &config); err != nil {
		return fmt.Errorf("decode ProxyConfig: %w", err)
	}
	return a.applyTrustBundle(&config)
}

// applyTrustBundle makes the renewer trust the roots in config.caCertificatesPem besides the
// certificate authority's, replacing the roots of an earlier call. Roots that name trust domains
// are also passed by domain. It returns an error, and changes nothing, if a root is invalid.
// Without a renewer it only validates them.
func (a *agent) applyTrustBundle(config *meshconfig.ProxyConfig) error {
	anchors := make([]mesh.TrustAnchor, len(config.GetCaCertificatesPem()))
	texts := make([][]byte, len(anchors))
	for i, text := range config.GetCaCertificatesPem() {
		anchors[i] = mesh.ParseTrustAnchor(text)
		texts[i] = []byte(anchors[i].PEM)
	}
	all, err := secret.JoinCertificates(texts...)
	if err != nil {
		return fmt.Errorf("ProxyConfig.caCertificatesPem: %w", err)
	}
	if a.renewer != nil {
		a.renewer.SetTrustBundle(all, rootsByDomain(anchors)...)
	}
	return nil
}

// rootsByDomain returns the concatenated roots of each trust domain that anchors name, sorted by
// domain. Anchors without a domain are left out, so the list may be empty.
func rootsByDomain(anchors []mesh.TrustAnchor) []secret.TrustDomain {
	texts := map[string][]byte{}
	for _, a := range anchors {
		for _, d := range a.Domains {
			texts[d] = append(append(texts[d], a.PEM...), '\n')
		}
	}
	list := make([]secret.TrustDomain, 0, len(texts))
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		list = append(list, secret.TrustDomain{Name: name, Roots: texts[name]})
	}
	return list
}
