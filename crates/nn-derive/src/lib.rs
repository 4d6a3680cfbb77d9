//! `#[derive(Module)]`: walks the fields of a struct, in the order in which they stand.

use proc_macro::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Fields, Index, LitStr, parse_macro_input, parse_quote};

/// Makes a struct a `flambeau_nn::Module`: its fields' parameters, buffers and modules become its own, under the
/// fields' names (a tuple struct's under their numbers). Every field's type must be a `Walk`, as parameters, buffers,
/// modules, numbers, text, and options, vectors, arrays and boxes of them are; a field marked `#[module(skip)]` is left
/// out, whatever its type, and one marked `#[module(name = "LayerNorm")]` has that name in states.
#[proc_macro_derive(Module, attributes(module))]
pub fn derive_module(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand(input).unwrap_or_else(Error::into_compile_error).into()
}

fn expand(mut input: DeriveInput) -> syn::Result<proc_macro2::TokenStream> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new_spanned(&input.ident, "Module can be derived for structs only"));
    };
    let (mut walks, mut walks_mut) = (Vec::new(), Vec::new());
    for (number, field) in data.fields.iter().enumerate() {
        let (mut skip, mut given_name) = (false, None);
        for attribute in field.attrs.iter().filter(|a| a.path().is_ident("module")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("skip") {
                    skip = true;
                } else if meta.path.is_ident("name") {
                    given_name = Some(meta.value()?.parse::<LitStr>()?.value());
                } else {
                    return Err(meta.error("only `skip` and `name` are known here"));
                }
                Ok(())
            })?;
        }
        if skip {
            continue;
        }
        let (member, name) = match (&data.fields, &field.ident) {
            (Fields::Named(_), Some(ident)) => {
                let name = ident.to_string();
                (quote!(#ident), name.strip_prefix("r#").unwrap_or(&name).to_owned())
            }
            _ => {
                let index = Index::from(number);
                (quote!(#index), number.to_string())
            }
        };
        let name = given_name.unwrap_or(name);
        walks.push(quote! {
            path.enter(#name, |path| ::flambeau_nn::Walk::walk(&self.#member, path, visit));
        });
        walks_mut.push(quote!(::flambeau_nn::Walk::walk_mut(&mut self.#member, visit)?;));
    }
    for parameter in input.generics.type_params_mut() {
        parameter.bounds.push(parse_quote!(::flambeau_nn::Walk));
    }
    let (name, (generics, types, bounds)) = (&input.ident, input.generics.split_for_impl());
    Ok(quote! {
        #[automatically_derived]
        impl #generics ::flambeau_nn::Walk for #name #types #bounds {
            #[allow(unused_variables)]
            fn walk(&self, path: &mut ::flambeau_nn::Path, visit: &mut dyn FnMut(&str, ::flambeau_nn::Leaf<'_>)) {
                #(#walks)*
            }
            #[allow(unused_variables)]
            fn walk_mut(
                &mut self,
                visit: &mut dyn FnMut(::flambeau_nn::LeafMut<'_>) -> ::flambeau_nn::Result<()>,
            ) -> ::flambeau_nn::Result<()> {
                #(#walks_mut)*
                Ok(())
            }
        }
        #[automatically_derived]
        impl #generics ::flambeau_nn::Module for #name #types #bounds {}
    })
}
