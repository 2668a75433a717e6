package quietstatus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/paddock-project/paddock/internal/base/bounded"
	"github.com/paddock-project/paddock/internal/silencer"
)

const (
	// mostStatus is the largest status that is read, in bytes. A file has about 300.
	mostStatus = 64 << 20
	askTime    = 5 * time.Second
)

// Ask returns the status of the process that listens on an address.
func Ask(ctx context.Context, address string) (*silencer.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	status, err := ask(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: does paddock quiet run on this node? What it has changed stays until it is given back: paddock quiet --release", address, err)
	}
	return status, nil
}

// ask reads the status of the process that listens on an address.
func ask(ctx context.Context, address string) (*silencer.Status, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+silencer.StatusPath, http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	data, err := bounded.Read("the answer", answer.Body, mostStatus)
	if err != nil {
		return nil, err
	}
	var status silencer.Status
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %s", answer.Status)
	}
	if err := json.Unmarshal(data, &status); err != nil {
		return nil, errors.New("the answer is not that of paddock quiet")
	}
	return &status, nil
}
