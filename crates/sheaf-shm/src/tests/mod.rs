mod arena;
mod broken;
mod ring;
mod world;
