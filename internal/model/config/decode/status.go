package decode

import (
	"encoding/json"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// Status decodes the parts of a status that change generated configuration. These are the addresses
// allocated to a ServiceEntry's hosts (in lower case), and whether a WorkloadEntry's condition
// Healthy is true. It returns nil for other kinds, without addresses, and for a WorkloadEntry that
// is not healthy. A status that cannot be decoded is ignored, because programs write it.
func Status(kind api.Kind, text json.RawMessage) *config.Status {
	if len(text) == 0 || kind != api.ServiceEntry && kind != api.WorkloadEntry {
		return nil
	}
	var given struct {
		Addresses []struct {
			Value string `json:"value"`
			Host  string `json:"host"`
		} `json:"addresses"`
		Conditions []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions"`
	}
	if json.Unmarshal(text, &given) != nil {
		return nil
	}
	var s config.Status
	if kind == api.ServiceEntry {
		for _, a := range given.Addresses {
			s.Addresses = append(s.Addresses, config.HostAddress{Host: strings.ToLower(a.Host), Address: a.Value})
		}
	} else {
		for _, c := range given.Conditions {
			if c.Type == "Healthy" {
				s.Healthy = strings.EqualFold(c.Status, "True")
			}
		}
	}
	if len(s.Addresses) == 0 && !s.Healthy {
		return nil
	}
	return &s
}
