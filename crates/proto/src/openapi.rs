//! Schemas of the types whose JSON form is written by hand.

use utoipa::openapi::schema::{KnownFormat, SchemaFormat, SchemaType, Type};
use utoipa::openapi::{ObjectBuilder, OneOfBuilder, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::ending::EndingJson;
use crate::event::EventJson;
use crate::spec::{IdentityJson, IdentitySection, Max};
use crate::{BoxId, BoxName, ByteString, Ending, Event, ExecId, Signal, Timestamp};

fn text(description: &str) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(SchemaType::new(Type::String))
        .description(Some(description.to_owned()))
}

macro_rules! by_hand {
    ($($type:ty => $schema:expr;)+) => {
        $(
            impl PartialSchema for $type {
                fn schema() -> RefOr<Schema> {
                    $schema.into()
                }
            }

            impl ToSchema for $type {}
        )+
    };
}

by_hand! {
    BoxId => text("UUIDv7 of a box, hyphenated, lower case.")
        .format(Some(SchemaFormat::Custom("uuid".to_owned())));
    ExecId => text("UUIDv7 of an exec, hyphenated, lower case.")
        .format(Some(SchemaFormat::Custom("uuid".to_owned())));
    BoxName => text("A DNS label other than `self`.")
        .pattern(Some("^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"));
    Timestamp => text("RFC 3339, UTC, with microseconds.")
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)));
    Signal => text("A signal's name, such as `SIGTERM` or `SIGRTMIN+3`.");
    ByteString => OneOfBuilder::new()
        .item(text("The bytes, where they are UTF-8."))
        .item(
            ObjectBuilder::new()
                .property("base64", text("The bytes, where they are not."))
                .required("base64"),
        );
    Max => OneOfBuilder::new()
        .item(ObjectBuilder::new().schema_type(SchemaType::new(Type::Integer)).minimum(Some(0)))
        .item(text("What keeps the host alive.").enum_values(Some(["auto"])));
}

/// Types that are read and written through another one.
macro_rules! through {
    ($($type:ty => $form:ty;)+) => {
        $(
            impl PartialSchema for $type {
                fn schema() -> RefOr<Schema> {
                    <$form>::schema()
                }
            }

            impl ToSchema for $type {
                fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
                    <$form>::schemas(schemas);
                }
            }
        )+
    };
}

through! {
    Ending => EndingJson;
    Event => EventJson;
    IdentitySection => IdentityJson;
}
