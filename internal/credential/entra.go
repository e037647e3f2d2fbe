package credential

import (
	"context"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
)

// EntraOptions say which token of Entra ID is used.
type EntraOptions struct {
	Account string // named in errors
	Scope   string // such as https://cognitiveservices.azure.com/.default
}

// AzureEntra sends an Entra ID token from the first of the SDK's default chain that has one: environment, workload identity, managed identity,
// command line tools. The chain is gone through when a token is needed, so that making this asks nobody, and a refused token is replaced. Not
// so one of a managed identity, which the SDK keeps until it ends.
func AzureEntra(o EntraOptions) *Credential {
	return newTokens(func(ctx context.Context) (token, error) { return entraToken(ctx, o.Scope, nil) }).credential(o.Account)
}

func entraToken(ctx context.Context, scope string, chain *azidentity.DefaultAzureCredentialOptions) (token, error) {
	const advice = "run where a workload or managed identity is attached, or set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET"
	identity, err := azidentity.NewDefaultAzureCredential(chain)
	if err != nil {
		return token{}, fmt.Errorf("no Entra ID credentials: %s; %s", reason(err), advice)
	}
	got, err := identity.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{scope}})
	if err != nil {
		return token{}, fmt.Errorf("no Entra ID token: %s; %s", reason(err), advice)
	}
	return token{value: got.Token, expires: got.ExpiresOn}, nil
}
