package nacos

import (
	"encoding/json"
	"fmt"
	"strings"
)

// The types of messages. From notifyRequest on they are pushes of servers, the others are requests
// to servers.
const (
	serverCheckRequest     = "ServerCheckRequest"
	connectionSetupRequest = "ConnectionSetupRequest"
	healthCheckRequest     = "HealthCheckRequest"
	serviceListRequest     = "ServiceListRequest"
	subscribeRequest       = "SubscribeServiceRequest"
	notifyRequest          = "NotifySubscriberRequest"
	detectionRequest       = "ClientDetectionRequest"
	resetRequest           = "ConnectResetRequest"
	setupAckRequest        = "SetupAckRequest"
)

// request is a request of the client. Fields that a type does not have are empty.
type request struct {
	Module      string            `json:"module"`
	Namespace   string            `json:"namespace,omitempty"`
	GroupName   string            `json:"groupName,omitempty"`
	ServiceName string            `json:"serviceName,omitempty"`
	Subscribe   bool              `json:"subscribe,omitempty"`
	PageNo      int               `json:"pageNo,omitempty"`
	PageSize    int               `json:"pageSize,omitempty"`
	Tenant      string            `json:"tenant,omitempty"`
	Version     string            `json:"clientVersion,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
}

// The codes of responses. codeUnregistered is the error code before the server has processed the
// setup of the connection.
const (
	codeSuccess      = 200
	codeUnregistered = 301
	codeForbidden    = 403
)

// response is a response of a server.
type response struct {
	ResultCode   int         `json:"resultCode"`
	ErrorCode    int         `json:"errorCode"`
	Message      string      `json:"message"`
	Count        int         `json:"count"`
	ServiceNames []string    `json:"serviceNames"`
	ServiceInfo  serviceInfo `json:"serviceInfo"`
}

// responseError is a response that is no success.
type responseError struct {
	code    int
	message string
}

func (e *responseError) Error() string {
	return fmt.Sprintf("Nacos answered with code %d: %s", e.code, e.message)
}

// parseResponse parses a response. It returns a *responseError if it is no success, and another
// error if it is malformed.
func parseResponse(p *payload) (*response, error) {
	var r response
	if err := json.Unmarshal(p.body, &r); err != nil {
		return nil, fmt.Errorf("the answer %s is not JSON of Nacos: %w", p.kind, err)
	}
	if r.ResultCode != codeSuccess {
		code := r.ErrorCode
		if code == 0 {
			code = r.ResultCode
		}
		return nil, &responseError{code, r.Message}
	}
	return &r, nil
}

// push is a message that the server sends by itself. It must be acknowledged with its ID.
type push struct {
	kind string
	ID   string      `json:"requestId"`
	Info serviceInfo `json:"serviceInfo"`
}

// parsePush parses a push. It returns an error if it is malformed.
func parsePush(p *payload) (*push, error) {
	x := &push{kind: p.kind}
	if err := json.Unmarshal(p.body, x); err != nil {
		return nil, fmt.Errorf("the message %s is not JSON of Nacos: %w", p.kind, err)
	}
	return x, nil
}

// serviceInfo is a service with its instances.
type serviceInfo struct {
	Name      string     `json:"name"`
	GroupName string     `json:"groupName"`
	Hosts     []instance `json:"hosts"`
}

// key returns the key of a service. Servers write the name with or without the group.
func (i *serviceInfo) key() serviceKey { return keyOf(i.GroupName, i.Name) }

// instance is the part of an instance that configuration depends on.
type instance struct {
	ID          string            `json:"instanceId"`
	IP          string            `json:"ip"`
	Port        int               `json:"port"`
	Weight      float64           `json:"weight"`
	Healthy     bool              `json:"healthy"`
	Enabled     bool              `json:"enabled"`
	ClusterName string            `json:"clusterName"`
	Metadata    map[string]string `json:"metadata"`
}

// serviceKey identifies a service in its namespace.
type serviceKey struct{ group, name string }

// keyOf returns the key of a service whose name may have the form "group@@name". Otherwise group is
// its group.
func keyOf(group, name string) serviceKey {
	if g, n, found := strings.Cut(name, "@@"); found {
		return serviceKey{g, n}
	}
	return serviceKey{group, name}
}
