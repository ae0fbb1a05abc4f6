// pilot-agent, the other agent. Its SDS server is a parameter of the command, because other agents
// replace it.
package main

import (
	"os"

	meshconfig "istio.io/api/mesh/v1alpha1"
	"istio.io/istio/pilot/cmd/pilot-agent/app"
	istioagent "istio.io/istio/pkg/istio-agent"
	"istio.io/istio/pkg/security"
	"istio.io/istio/security/pkg/nodeagent/sds"
)

func main() {
	command := app.NewRootCommand(func(
		options *security.Options, secrets security.SecretManager, keys *meshconfig.PrivateKeyProvider,
	) istioagent.SDSService {
		return sds.NewServer(options, secrets, keys)
	})
	if command.Execute() != nil {
		os.Exit(1)
	}
}
