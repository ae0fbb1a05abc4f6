package serviceentry

import (
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// raceFirstConnect is the only value of mesh.ConnectStrategyAnnotation, in upper or lower case.
const raceFirstConnect = "RACE_FIRST_TCP_CONNECT"

// racesAddresses reports whether mesh.ConnectStrategyAnnotation of the object has the value
// raceFirstConnect. An empty value counts as no annotation; other values are a Problem.
func (r *reader) racesAddresses() bool {
	value := r.object.Annotations[mesh.ConnectStrategyAnnotation]
	if value == "" || strings.EqualFold(value, raceFirstConnect) {
		return value != ""
	}
	r.addProblem(config.Warning, "metadata.annotations["+mesh.ConnectStrategyAnnotation+"]",
		"%q is not %s; proxies connect to one address of each host", value, raceFirstConnect)
	return false
}
