package agent

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/agent/relay"
	"github.com/meshpilot/meshpilot/internal/agent/secret"
	"github.com/meshpilot/meshpilot/internal/api"
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
	text, err := secret.Join([]byte(strings.Join(config.GetCaCertificatesPem(), "\n")))
	if err != nil {
		return fmt.Errorf("ProxyConfig.caCertificatesPem: %w", err)
	}
	if a.renewer != nil {
		a.renewer.Trust(text)
	}
	return nil
}
