package nomad

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// The paths of the HTTP interface.
const (
	pathServices = "/v1/services"
	pathService  = "/v1/service/"
)

// registration is the part of a service registration that configuration depends on. The names of
// the fields are equal to the names in the JSON.
type registration struct {
	ID          string
	ServiceName string
	Namespace   string
	Datacenter  string
	JobID       string
	Address     string
	Port        int
	Tags        []string
	// CreateIndex is the index at which the registration was created. Together with the ID it
	// identifies the registration among all that ever existed, unless the servers lose their data.
	CreateIndex uint64
}

// parseNames returns the names of the services of a namespace, sorted and without duplicates, from
// an answer to pathServices. It returns an error if the answer is malformed, or has a service
// without a name in any namespace.
func parseNames(body []byte, namespace string) ([]string, error) {
	var list []struct {
		Namespace string
		Services  []struct{ ServiceName string }
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("the list of services is not JSON of Nomad: %w", err)
	}
	var names []string
	for _, n := range list {
		for _, s := range n.Services {
			if s.ServiceName == "" {
				return nil, errors.New("the list of services has one without a name")
			}
			if n.Namespace == namespace {
				names = append(names, s.ServiceName)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// parseRegistrations returns the registrations of a service, by ID, from an answer to pathService.
// It returns an error if the answer is malformed or one of them has no ID.
func parseRegistrations(body []byte) (map[string]registration, error) {
	var list []registration
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("the registrations are not JSON of Nomad: %w", err)
	}
	byID := make(map[string]registration, len(list))
	for _, r := range list {
		if r.ID == "" {
			return nil, errors.New("a registration has no ID")
		}
		byID[r.ID] = r
	}
	return byID, nil
}

// event is a change of a registration: that it was created, changed or removed.
type event struct {
	index   uint64
	service string
}

// parseEvents returns the events of a line that are about services. A line without events keeps the
// connection open. It returns an error if the line is malformed, or if an event names no service.
//
// The type of an event is that of the transaction: a registration that ends with its allocation is
// an AllocationUpdated, with the removed registration. So an event only names the service to read.
func parseEvents(line []byte) ([]event, error) {
	var batch struct {
		Events []struct {
			Topic   string
			Type    string
			Index   uint64
			Payload struct{ Service struct{ ServiceName string } }
		}
	}
	if err := json.Unmarshal(line, &batch); err != nil {
		return nil, fmt.Errorf("the events are not JSON of Nomad: %w", err)
	}
	var list []event
	for _, e := range batch.Events {
		if e.Topic != "Service" {
			continue
		}
		if e.Payload.Service.ServiceName == "" {
			return nil, fmt.Errorf("event %s of index %d names no service", e.Type, e.Index)
		}
		list = append(list, event{index: e.Index, service: e.Payload.Service.ServiceName})
	}
	return list, nil
}
